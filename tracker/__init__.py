"""gpucost: cloud GPU prices over time, and what a whole job costs."""

__version__ = "0.1.0"
