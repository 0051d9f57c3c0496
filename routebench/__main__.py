"""`python -m routebench`."""

from routebench.cli import main

if __name__ == "__main__":
    main()
