"""`python -m vaescope.cli` is `vaescope`."""

from vaescope.cli import main

main()
