"""The parts of `bench.soak`: a book of what was asked for, and drivers that ask at random and check what came of it."""
