from classroom_fixtures import classroom, data_program, halfway  # noqa: F401
