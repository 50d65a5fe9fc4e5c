"""Topics that several sites write: who wrote what, what a link has appended, where groups go on.

Pure: no clock, no socket. docs/adr/0059 has the rules.
"""
