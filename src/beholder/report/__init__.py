"""Tables from the records of runs: this room reads headers and summaries and computes no number."""
