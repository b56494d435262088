#include "launch/keeper.hpp"
