-- Facts that one host alone has, where at least half of its group has another: "the only one with governor=powersave".
WITH facts AS (SELECT run, host, grp, fact, text FROM fleet WHERE tbl = 'facts'),
counts AS (SELECT grp, fact, text, count(*) AS hosts FROM facts GROUP BY grp, fact, text),
-- With the table's name: to ClickHouse `hosts` alone is the sum.
known AS (SELECT grp, fact, sum(c.hosts) AS hosts, max(c.hosts) AS most FROM counts c GROUP BY grp, fact),
usual AS (SELECT c.grp, c.fact, max(c.text) AS text FROM counts c JOIN known k ON c.grp = k.grp AND c.fact = k.fact AND c.hosts = k.most GROUP BY c.grp, c.fact)
-- Named once more: of several joins ClickHouse calls a column `f.host` otherwise.
SELECT f.host AS host, f.grp AS grp, f.fact AS fact, f.text AS text, u.text AS others
FROM facts f
JOIN counts c ON f.grp = c.grp AND f.fact = c.fact AND f.text = c.text
JOIN known k ON f.grp = k.grp AND f.fact = k.fact
JOIN usual u ON f.grp = u.grp AND f.fact = u.fact
WHERE c.hosts = 1 AND k.hosts >= 4 AND k.most > 1 AND 2 * k.most >= k.hosts - 1
ORDER BY f.grp, f.host, f.fact
