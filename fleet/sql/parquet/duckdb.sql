-- DuckDB: fleet.parquet as one table.
CREATE VIEW fleet AS SELECT * FROM read_parquet('fleet.parquet');
