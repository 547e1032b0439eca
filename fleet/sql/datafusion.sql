-- DataFusion: the rows of `rdiag fleet runs --format rows > fleet.ndjson` as one table. Of many files: a folder as LOCATION.
CREATE EXTERNAL TABLE fleet (
  tbl VARCHAR, run VARCHAR, host VARCHAR, grp VARCHAR, headline VARCHAR, not_judged VARCHAR, started VARCHAR,
  window_index BIGINT, metric VARCHAR, instance VARCHAR, role VARCHAR, unit VARCHAR, value DOUBLE, is_error BOOLEAN,
  rule VARCHAR, title VARCHAR, status VARCHAR, is_past BOOLEAN, culprit VARCHAR, summary VARCHAR,
  fact VARCHAR, text VARCHAR
) STORED AS JSON LOCATION 'fleet.ndjson';
