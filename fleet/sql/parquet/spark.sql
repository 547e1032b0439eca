-- Spark: fleet.parquet as one table.
CREATE OR REPLACE TEMPORARY VIEW fleet AS SELECT * FROM parquet.`fleet.parquet`;
