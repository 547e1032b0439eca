-- Hosts that were not judged, and why: never to be read as fine.
SELECT host, grp, not_judged, headline FROM fleet WHERE tbl = 'runs' AND not_judged IS NOT NULL ORDER BY host
