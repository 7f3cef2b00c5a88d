module isvc-operator/tools/pause

go 1.24.0
