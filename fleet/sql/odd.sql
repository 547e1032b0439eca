-- Hosts that are unlike the others of their group, and in what, by the same three tests as `rdiag fleet`:
--   finding  a rule fires on a tenth of the judged hosts at most, or on one, of at least five
--   errors   a count of errors where 95 % of the others have none
--   reading  10 robust standard deviations from the median (more in groups below 30), and a difference that matters
-- A distance alone names healthy hosts: rates, durations and sizes have long tails. So they must be as far by factor (on a logarithmic
-- scale) as by difference, and differ by a factor of two; and where more than a tenth of a group is far out, the group has two parts and
-- no host of it is odd. And an odd host is four times as far as any host on its side of the median that is not odd.
WITH ranked AS (
  SELECT run, host, grp, rule, role, summary,
         CASE WHEN is_past THEN 1 ELSE CASE status WHEN 'critical' THEN 5 WHEN 'warning' THEN 4 WHEN 'info' THEN 3 WHEN 'unknown' THEN 2 ELSE 1 END END AS level
  FROM fleet WHERE tbl = 'findings'
),
worst AS (SELECT run, host, grp, rule, max(level) AS level FROM ranked GROUP BY run, host, grp, rule),
votes AS (
  SELECT grp, rule, sum(CASE WHEN level >= 4 THEN 1 ELSE 0 END) AS hosts, sum(CASE WHEN level <> 2 THEN 1 ELSE 0 END) AS judged
  FROM worst GROUP BY grp, rule
),
odd_rules AS (
  SELECT grp, rule FROM votes
  WHERE hosts > 0 AND judged >= 5 AND hosts <= greatest(floor(judged / 10.0), 1) AND NOT (hosts >= 3 AND 2 * hosts >= judged)
),
odd_findings AS (
  SELECT w.run, w.host, w.grp, 'finding' AS what, w.rule AS name, '' AS role, NULL AS value, NULL AS usual, NULL AS z
  FROM worst w JOIN odd_rules o ON w.grp = o.grp AND w.rule = o.rule WHERE w.level >= 4
),
-- One figure for each host, metric and role: that of the first window, since later ones look at what it found.
numbered AS (
  SELECT run, host, grp, metric, role, unit, is_error, value,
         row_number() OVER (PARTITION BY run, metric, role ORDER BY window_index, instance) AS nth
  FROM fleet WHERE tbl = 'readings' AND value IS NOT NULL
),
scaled AS (
  SELECT run, host, grp, metric, role, is_error, value,
         CASE unit WHEN 'ratio' THEN 0.005 WHEN 'seconds' THEN 0.0001 WHEN 'bytes' THEN 1048576.0 WHEN 'bytes_per_second' THEN 10240.0 ELSE 1.0 END AS resolution,
         CASE unit WHEN 'ratio' THEN 0.05 WHEN 'seconds' THEN 0.001 WHEN 'bytes' THEN 67108864.0 WHEN 'bytes_per_second' THEN 1048576.0 ELSE 10.0 END AS material,
         CASE unit WHEN 'ratio' THEN 0 ELSE 1 END AS doubles
  FROM numbered WHERE nth = 1
),
logs AS (
  SELECT run, host, grp, metric, role, value, resolution, material, doubles,
         CASE WHEN value < 0 THEN -ln(1 + abs(value) / resolution) ELSE ln(1 + abs(value) / resolution) END AS lg
  FROM scaled
),
kinds AS (
  SELECT grp, metric, role, count(*) AS n, max(CASE WHEN is_error THEN 1 ELSE 0 END) AS errors,
         sum(CASE WHEN value > 0 THEN 1 ELSE 0 END) AS some
  FROM scaled GROUP BY grp, metric, role
),
odd_errors AS (
  SELECT s.run, s.host, s.grp, 'errors' AS what, s.metric AS name, s.role, s.value, CAST(0 AS DOUBLE) AS usual, NULL AS z
  FROM scaled s JOIN kinds k ON s.grp = k.grp AND s.metric = k.metric AND s.role = k.role
  WHERE k.errors = 1 AND k.n >= 5 AND s.value > 0 AND k.n - k.some >= 0.95 * (k.n - 1)
),
middles AS (SELECT grp, metric, role, median(value) AS mid, median(lg) AS lmid FROM logs GROUP BY grp, metric, role),
spread AS (
  SELECT l.grp, l.metric, l.role, median(abs(l.value - m.mid)) AS mad, median(abs(l.lg - m.lmid)) AS lmad
  FROM logs l JOIN middles m ON l.grp = m.grp AND l.metric = m.metric AND l.role = m.role
  GROUP BY l.grp, l.metric, l.role
),
distances AS (
  -- Named once more: of several joins ClickHouse calls a column `l.run` otherwise.
  SELECT l.run AS run, l.host AS host, l.grp AS grp, l.metric AS metric, l.role AS role, l.value AS value,
         l.material, l.doubles, m.mid, k.n,
         0.6745 * (l.value - m.mid) / greatest(s.mad, 0.01 * abs(m.mid), l.resolution) AS plain,
         0.6745 * (l.lg - m.lmid) / greatest(s.lmad, least(greatest(ln(1 + l.resolution / (abs(m.mid) + l.resolution)), 0.02), 0.4)) AS factor
  FROM logs l
  JOIN middles m ON l.grp = m.grp AND l.metric = m.metric AND l.role = m.role
  JOIN spread s ON l.grp = s.grp AND l.metric = s.metric AND l.role = s.role
  JOIN kinds k ON l.grp = k.grp AND l.metric = k.metric AND l.role = k.role
  WHERE k.n >= 5 AND k.errors = 0
),
measured AS (
  SELECT run, host, grp, metric, role, value, material, doubles, mid, n,
         CASE WHEN doubles = 1 AND abs(factor) < abs(plain) THEN factor ELSE plain END AS z
  FROM distances
),
far AS (
  SELECT run, host, grp, metric, role, value, mid, z, n FROM measured
  WHERE abs(z) >= 10 * greatest(30.0 / n, 1.0) AND abs(value - mid) >= material
    AND (doubles = 0 OR value * mid < 0 OR greatest(abs(value), abs(mid)) >= 2 * least(abs(value), abs(mid)))
),
whole AS (
  SELECT grp, metric, role FROM far GROUP BY grp, metric, role HAVING count(*) <= greatest(floor(max(n) / 10.0), 1)
),
-- Each distance with the next smaller one on its side of the median.
steps AS (
  SELECT m.run AS run, m.grp AS grp, m.metric AS metric, m.role AS role, m.z AS z, CASE WHEN m.z > 0 THEN 1 ELSE 0 END AS side,
         max(abs(m.z)) OVER (
           PARTITION BY m.grp, m.metric, m.role, CASE WHEN m.z > 0 THEN 1 ELSE 0 END
           ORDER BY abs(m.z) ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING
         ) AS nearer
  FROM measured m JOIN whole w ON m.grp = w.grp AND m.metric = w.metric AND m.role = w.role
),
edges AS (
  SELECT s.grp AS grp, s.metric AS metric, s.role AS role, s.side AS side, min(abs(s.z)) AS edge
  FROM steps s JOIN far f ON s.run = f.run AND s.metric = f.metric AND s.role = f.role
  WHERE abs(s.z) >= 4 * coalesce(s.nearer, 0) GROUP BY s.grp, s.metric, s.role, s.side
),
odd_readings AS (
  SELECT f.run, f.host, f.grp, 'reading' AS what, f.metric AS name, f.role, f.value, f.mid AS usual, f.z
  FROM far f JOIN edges e ON f.grp = e.grp AND f.metric = e.metric AND f.role = e.role
  WHERE abs(f.z) >= e.edge AND e.side = CASE WHEN f.z > 0 THEN 1 ELSE 0 END
)
-- In parentheses: ClickHouse sorts only the last part of a union otherwise.
SELECT run, host, grp, what, name, role, value, usual, z FROM (
  SELECT run, host, grp, what, name, role, value, usual, z FROM odd_findings
  UNION ALL SELECT run, host, grp, what, name, role, value, usual, z FROM odd_errors
  UNION ALL SELECT run, host, grp, what, name, role, value, usual, z FROM odd_readings
) odd
ORDER BY grp, host, what, name, role
