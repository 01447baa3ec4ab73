"""``python -m tests.support.unpaced poll``: gpucost without the pauses that real hosts are due."""

from tracker.cli.main import main
from tracker.http import factory
from tracker.http.gate import HostGate

if __name__ == "__main__":
    factory.make_gate = lambda provider, settings: HostGate()
    main()
