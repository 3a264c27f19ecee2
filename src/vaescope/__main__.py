"""`python -m vaescope` is `vaescope`."""

from vaescope.cli import main

# Others import every module of the package, and start no command by that.
if __name__ == "__main__":
    main()
