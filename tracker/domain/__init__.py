"""The pure core: no clock, no I/O, standard library only."""
