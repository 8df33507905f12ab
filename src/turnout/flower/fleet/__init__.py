"""Which client is at which node: names, greetings, and absences imposed on a simulation."""
