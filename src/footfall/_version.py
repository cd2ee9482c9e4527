"""The version of the package, which whatever is written down names."""

__version__ = "0.1.0"
