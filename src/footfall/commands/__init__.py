"""The commands of the command line, one a file: a typed configuration and `main(config)`. No torch until one runs."""

__all__: list[str] = []
