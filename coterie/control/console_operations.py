"""The operations of the control port that the console has, too: faults, the clock, and groups now.

They are methods of what one broker and several have in common, so this module knows neither. What
a broker can do in a test includes its console, which is why these rows stand apart.
"""

from coterie.control.operations import Row, Table
from coterie.control.process_control import ProcessControl
from coterie.testing.faults import Fault
from coterie.testing.groups import Group
from coterie.testing.views import Views

ADVANCE = Row("POST", "/advance", Views.advance)
MOMENT = Row("GET", "/moment", Views.moment)
FAULTS = Row("GET", "/faults", Views.faults, ProcessControl.fault_states)
INSTALL = Row("POST", "/faults", Views.fault, ProcessControl.fault_state)
REMOVE = Row("DELETE", "/faults/{fault_id}", Fault.remove)
SESSIONS = Row("GET", "/groups/{group_id}/sessions", Group.sessions)
SHARE_PARTITIONS = Row("GET", "/groups/{group_id}/share_partitions", Group.share_partitions)

CONSOLE = Table("Views", (ADVANCE, MOMENT, FAULTS, INSTALL, REMOVE, SESSIONS, SHARE_PARTITIONS))
