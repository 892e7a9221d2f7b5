"""One reader for each format of logs that other programs write; `logs` tells them apart."""
