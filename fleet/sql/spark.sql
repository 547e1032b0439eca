-- Spark: the rows of `rdiag fleet runs --format rows > fleet.ndjson` as one table. Of many files: a folder or a bucket as path. Of what
-- fleet/spark/judge.py has written: CREATE TEMPORARY VIEW fleet AS SELECT * FROM parquet.`rows` WHERE day = '2026-03-02'.
CREATE OR REPLACE TEMPORARY VIEW fleet (
  tbl STRING, run STRING, host STRING, grp STRING, headline STRING, not_judged STRING, started STRING,
  window_index BIGINT, metric STRING, instance STRING, role STRING, unit STRING, value DOUBLE, is_error BOOLEAN,
  rule STRING, title STRING, status STRING, is_past BOOLEAN, culprit STRING, summary STRING,
  fact STRING, text STRING
) USING json OPTIONS (path 'fleet.ndjson');
