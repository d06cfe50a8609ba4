module roam

go 1.25.0
