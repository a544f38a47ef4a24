"""`python -m asyncfl`: the command line where the script `asyncfl` is not on the path."""

from asyncfl.cli import main

if __name__ == "__main__":
    main()
