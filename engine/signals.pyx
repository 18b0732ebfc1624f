"""See signals.pxd."""

from cpython.exc cimport PyErr_CheckSignals

import os


cdef class SignalPipe:
    """Makes a signal end the wait of `run()` on the main thread.

    A signal that arrives just before the wait would be noticed only after it; so Python's own handler writes a byte
    into this pipe (`signal.set_wakeup_fd`), which the wait watches.  The program's wake-up descriptor is put back
    afterwards, with the bytes that were meant for it.
    """

    def __cinit__(self):
        import signal                    # late: it brings enum with it, and few programs come here

        self.reading = self.writing = -1
        if os.name == "nt":
            self.reading = 0             # no pipe: there the wait is cut into slices (platform.h)
            return
        self.reading, self.writing = os.pipe()
        try:
            os.set_blocking(self.reading, False)
            os.set_blocking(self.writing, False)
            self.program = signal.set_wakeup_fd(self.writing, warn_on_full_buffer=False)
        except BaseException as error:
            os.close(self.reading)
            os.close(self.writing)
            self.reading = self.writing = -1
            if not isinstance(error, ValueError):  # as it is in a sub-interpreter, where no signals arrive
                raise

    cdef int look(self) except -1:
        """Runs the handlers of signals that have come, and raises what they raise."""
        if self.writing < 0:
            PyErr_CheckSignals()
            return 0
        try:
            arrived = os.read(self.reading, 512)
            if self.program >= 0:
                os.write(self.program, arrived)
        except OSError:
            pass                         # nothing arrived, or the program's end is full or closed
        PyErr_CheckSignals()
        return 0

    cdef int close(self) except -1:
        import signal

        if self.writing < 0:
            return 0
        signal.set_wakeup_fd(self.program)
        try:
            self.look()
        finally:
            os.close(self.reading)
            os.close(self.writing)
        return 0
