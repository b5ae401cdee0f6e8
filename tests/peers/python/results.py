"""A plugin of pytest: writes what became of each test, as lines of JSON, to the file that PEER_RESULTS names."""

import json
import os


def pytest_runtest_logreport(report):
    # A test that passed has three reports; of the others, the first that is no success says why.
    if report.when != "call" and report.outcome == "passed":
        return
    message = str(getattr(report.longrepr, "reprcrash", None) or report.longrepr or "")
    row = {"test": report.nodeid.split("::", 1)[1], "outcome": report.outcome, "message": message[-600:]}
    with open(os.environ["PEER_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
