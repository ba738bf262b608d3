"""One cycle from captured traffic to a routed version, when it runs, and what it leaves behind when it is cut short."""
