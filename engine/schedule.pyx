"""See schedule.pxd."""
