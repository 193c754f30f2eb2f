"""ptxaudit: reads the PTX and SASS that a build really emitted and audits its synchronisation."""

__version__ = "0.1.0"
