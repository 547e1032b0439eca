-- On how many hosts of a group each rule fires: common (half of the judged hosts, and three), odd (a tenth at most, or one, of at least
-- five), or in between. `unknown` counts as not judged, and what happened before the window as nothing.
WITH ranked AS (
  SELECT run, grp, rule, title,
         CASE WHEN is_past THEN 1 ELSE CASE status WHEN 'critical' THEN 5 WHEN 'warning' THEN 4 WHEN 'info' THEN 3 WHEN 'unknown' THEN 2 ELSE 1 END END AS level
  FROM fleet WHERE tbl = 'findings'
),
worst AS (SELECT run, grp, rule, max(title) AS title, max(level) AS level FROM ranked GROUP BY run, grp, rule),
votes AS (
  -- With the table's name: to ClickHouse `level` alone is the maximum.
  SELECT grp, rule, max(w.title) AS title, max(w.level) AS level,
         sum(CASE WHEN w.level >= 4 THEN 1 ELSE 0 END) AS hosts,
         sum(CASE WHEN w.level <> 2 THEN 1 ELSE 0 END) AS judged,
         sum(CASE WHEN w.level = 2 THEN 1 ELSE 0 END) AS unknown
  FROM worst w GROUP BY grp, rule
)
SELECT grp, rule, title, CASE level WHEN 5 THEN 'critical' ELSE 'warning' END AS status, hosts, judged, unknown,
       CASE WHEN hosts >= 3 AND 2 * hosts >= judged THEN 'common'
            WHEN judged >= 5 AND hosts <= greatest(floor(judged / 10.0), 1) THEN 'odd'
            ELSE 'some' END AS reach
FROM votes WHERE hosts > 0
ORDER BY reach, hosts DESC, grp, rule
