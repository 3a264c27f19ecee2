"""`python -m vaescope` is `vaescope`."""

from vaescope.cli import main

# Importing this module must not start a command.
if __name__ == "__main__":
    main()
