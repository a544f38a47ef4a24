"""Draw docs/figures/view.png: the page of a run in a browser.

    python docs/figures/view.py

Needs Chromium and playwright, as the tests of the page do.
"""

from __future__ import annotations

import shutil
import subprocess
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

SCENARIO = """
data: {dataset: mnist, clients: 12, samples_per_client: 60, source: embedded}
model: {kind: mlp, hidden: [16]}
training: {lr: 0.1, batch_size: 20, epochs: 2, gradient_clip: 1.0}
protocol: {kind: buffered, rounds: 40, buffer: 4, dispatch: {kind: constant, in_flight: 10}, max_staleness: 6}
world:
  device: {kind: lognormal, median_s_per_sample: 0.01, sigma: 0.7}
  uplink: {latency_s: 0.05, bandwidth_bps: 500e3, loss: {kind: independent, probability: 0.01}}
  downlink: {latency_s: 0.05, bandwidth_bps: 2e6}
  availability: {kind: alternating, on_s: 30, off_s: 3}
  tap: {uplink: true, packet_loss: 0.02}
threats: {attackers: 2, attack: {kind: sign_flip}}
defence: {detector: {kind: evidence}, strikes: {threshold: 3}}
privacy: {kind: local_gaussian, epsilon: 60, clip_norm: 1.0}
evaluation: {audit: {}}
"""


def main() -> None:
    """Simulate the scenario and photograph its page."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        scenario = Path(folder, "scenario.yaml")
        scenario.write_text(SCENARIO, encoding="utf-8")
        for command in (["run", scenario.name, "--out", "example"], ["view", "example", "--out", "example.html"]):
            subprocess.run(["asyncfl", *command], cwd=folder, check=True)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 1110}, color_scheme="light")
        page.goto(Path(folder, "example.html").as_uri())
        page.wait_for_load_state("networkidle")
        picture = Image.open(BytesIO(page.screenshot()))
        picture.quantize(128).save(Path(__file__).with_suffix(".png"), optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
