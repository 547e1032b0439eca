-- DuckDB: the rows of `rdiag fleet runs --format rows > fleet.ndjson` as one table. Of many files: 'day=*/*.ndjson.gz'.
CREATE VIEW fleet AS SELECT * FROM read_ndjson('fleet.ndjson', maximum_object_size = 16777216, columns = {
  tbl: 'VARCHAR', run: 'VARCHAR', host: 'VARCHAR', grp: 'VARCHAR', headline: 'VARCHAR', not_judged: 'VARCHAR', started: 'VARCHAR',
  window_index: 'BIGINT', metric: 'VARCHAR', instance: 'VARCHAR', role: 'VARCHAR', unit: 'VARCHAR', value: 'DOUBLE', is_error: 'BOOLEAN',
  rule: 'VARCHAR', title: 'VARCHAR', status: 'VARCHAR', is_past: 'BOOLEAN', culprit: 'VARCHAR', summary: 'VARCHAR',
  fact: 'VARCHAR', text: 'VARCHAR'
});
