"""A browser, driven by Debian's chromedriver over the W3C WebDriver protocol (https://www.w3.org/TR/webdriver2/)."""

import base64
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowDown": "\ue015", "ArrowUp": "\ue013", "End": "\ue010", "Home": "\ue011"}


class WebDriverError(Exception):
    pass


class Browser:
    """One headless browser with one page. Use it in a `with`: its processes end with it."""

    def __init__(self, port, width=1280, height=800):
        self.folder = tempfile.mkdtemp(prefix="weir-browser-")
        self.port = port
        self.session = None
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True, env={**os.environ, "HOME": self.folder, "TMPDIR": self.folder})
        options = {"args": ["--headless=new", f"--window-size={width},{height}", f"--user-data-dir={self.folder}/profile",
                            "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-background-networking",
                            "--no-first-run", "--force-color-profile=srgb"]}
        if os.geteuid() == 0:
            options["args"].append("--no-sandbox")
        try:
            self._until_ready()
            answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
            self.session = answer["sessionId"]
            self._call("POST", self._path("/timeouts"), {"script": 30000, "pageLoad": 30000})
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        if self.session:
            try:
                self._call("DELETE", self._path(""))
            except (OSError, WebDriverError, http.client.HTTPException):
                pass
            self.session = None
        if self.driver.poll() is None:
            os.killpg(self.driver.pid, signal.SIGTERM)  # The driver's own group: its browser is in it.
            try:
                self.driver.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.driver.pid, signal.SIGKILL)
                self.driver.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _until_ready(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                if self._call("GET", "/status")["ready"]:
                    return
            except (OSError, http.client.HTTPException):
                pass
            if time.monotonic() > deadline or self.driver.poll() is not None:
                raise WebDriverError("chromedriver does not answer")
            time.sleep(0.1)

    def _path(self, rest):
        return f"/session/{self.session}{rest}"

    def _call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            text = None if method in ("GET", "DELETE") else json.dumps(body or {})
            connection.request(method, path, text, {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise WebDriverError(f"{value['error']}: {value['message'].splitlines()[0]}")
        return value

    def open(self, url):
        self._call("POST", self._path("/url"), {"url": url})

    def run(self, script, *args):
        """Runs a function's body in the page and returns what it returns; a promise is awaited."""
        return self._call("POST", self._path("/execute/sync"), {"script": script, "args": list(args)})

    def until(self, what, script, *args, seconds=10):
        """Waits until the script returns something true, and returns that."""
        deadline = time.monotonic() + seconds
        while True:
            value = self.run(script, *args)
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what}")
            time.sleep(0.05)

    def press(self, *keys):
        """Presses keys one after the other: letters, or names of KEYS."""
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._call("POST", self._path("/actions"), {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def move_to(self, x, y):
        """Moves the pointer to a point of the view."""
        self._call("POST", self._path("/actions"), {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
                   "actions": [{"type": "pointerMove", "x": int(x), "y": int(y), "duration": 0, "origin": "viewport"}]}]})

    def cdp(self, command, **params):
        """Sends a command of the Chrome DevTools protocol."""
        return self._call("POST", self._path("/goog/cdp/execute"), {"cmd": command, "params": params})

    def view(self, width, height, theme):
        """Gives the page a view of this size and the system's theme `dark` or `light`."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def screenshot(self, path, whole=False):
        """Writes a PNG of the view, or of the whole page."""
        taken = self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(taken["data"]))

    def log(self, kind):
        """Returns what the log of this kind (`browser` or `performance`) has had since it was last asked."""
        return self._call("POST", self._path("/se/log"), {"type": kind})
