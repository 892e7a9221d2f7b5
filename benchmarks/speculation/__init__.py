"""How well the next tool call is predicted on recorded runs, against a joint baseline that is built here.

    read ─▶ runs of events ─▶ protocols ─▶ rounds of (learn, judge) ─▶ guesses ─▶ scores, paired by task

`read` and `protocols` are of use to every benchmark that replays recorded runs as events.
"""
