"""The demo of a site: a month of accesses through a cache with status page, Prometheus and OpenSearch."""
