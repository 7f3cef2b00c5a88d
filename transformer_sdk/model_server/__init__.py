"""What every model server of this project does alike: its flags, its life, its end."""
