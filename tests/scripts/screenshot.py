"""Renders HTML pages to PNG with headless Chromium, to be looked at.

    python tests/scripts/screenshot.py PAGE.html OUT.png [--width 1400] [--height 1000] [--dark]
        [--hash ID]
    python tests/scripts/screenshot.py --sample OUT_FOLDER

``--sample`` makes the sample page of the tests and its
pictures: light and dark, wide and narrow. Needs Debian's ``chromium``.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def chromium(page: str, *options: str) -> str:
    """Run Chromium on an address; its standard output. Raises CalledProcessError when it fails."""
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium", *FLAGS, f"--user-data-dir={profile}", *options, page]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def screenshot(
    page: Path, picture: Path, width: int, height: int, dark: bool = False, anchor: str = ""
) -> None:
    """A picture of a page. Chromium refuses windows under 500 px, so narrow pages are framed."""
    address = page.resolve().as_uri() + (f"#{anchor}" if anchor else "")
    theme = "--blink-settings=preferredColorScheme=" + ("0" if dark else "1")
    size = f"--window-size={max(width, 500)},{height}"
    shot = f"--screenshot={picture.resolve()}"
    if width >= 500:
        chromium(address, size, theme, shot, "--virtual-time-budget=4000")
        return
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame.html"
        frame.write_text(
            f'<body style="margin:0"><iframe src="{address}" width="{width}" height="{height}" '
            'style="border:0;display:block"></iframe>',
            encoding="utf-8",
        )
        chromium(
            frame.as_uri(), size, theme, shot, "--virtual-time-budget=4000", "--allow-file-access-from-files"
        )


def _sample(folder: Path) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "report"))
    from html_sample import PATTERNS, large_report, sample_report

    from ptxaudit.report.html import render

    folder.mkdir(parents=True, exist_ok=True)
    page, large = folder / "sample.html", folder / "large.html"
    page.write_text(render(sample_report(), PATTERNS), encoding="utf-8")
    large.write_text(render(large_report(), PATTERNS), encoding="utf-8")
    for dark in (False, True):
        theme = "dark" if dark else "light"
        screenshot(page, folder / f"wide-{theme}.png", 1400, 3800, dark)
        screenshot(page, folder / f"narrow-{theme}.png", 420, 3600, dark)
    screenshot(large, folder / "large-light.png", 1400, 1000)


def main() -> None:
    """Read the command line and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?")
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--width", type=int, default=1400)
    parser.add_argument("--height", type=int, default=1000)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--hash", default="", help="fragment to open the page at")
    parser.add_argument("--sample", type=Path, metavar="OUT_FOLDER")
    options = parser.parse_args()
    if options.sample is not None:
        _sample(options.sample)
    elif options.page is not None and options.picture is not None:
        screenshot(options.page, options.picture, options.width, options.height, options.dark, options.hash)
    else:
        parser.error("give PAGE and PICTURE, or --sample FOLDER")


if __name__ == "__main__":
    main()
