"""``python -m ptxaudit``."""

from ptxaudit.cli import main

if __name__ == "__main__":
    main()
