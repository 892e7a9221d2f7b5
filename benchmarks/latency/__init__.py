"""What running tools early does to the time of whole runs, in virtual time; see `run`."""
