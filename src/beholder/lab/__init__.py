"""The lab: what a metric reacts to. Pictures and texts are changed in known ways, by known degrees."""
