"""Which commit of a checkout's history brought a fault: replays of a file on one commit after the other."""
