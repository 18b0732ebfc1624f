"""The parts of the uptime monitor; ../monitor.py puts them together."""
