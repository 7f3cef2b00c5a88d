"""What every model server does alike: its flags, its lifecycle, its exit codes."""
