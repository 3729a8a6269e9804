"""Parts of a report that only some runs have: tables of protocols, subjects, videos, attributes, values of sets."""
