from classroom_fixtures import classroom, data_program, one_thread  # noqa: F401
