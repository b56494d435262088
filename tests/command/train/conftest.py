from classroom_fixtures import classroom, data_program  # noqa: F401
