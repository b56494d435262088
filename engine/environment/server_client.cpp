#include "environment/server_client.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/text.hpp"
#include "environment/environment.hpp"
#include "system/files.hpp"
#include "system/process.hpp"

namespace muster::environment {
namespace {

namespace fs = std::filesystem;

// Relative to the folder of the program: installed together; in one build tree; from ./muster's worker to its other
// tree.
constexpr std::array places{"muster-environments", "../environments/muster-environments",
                            "../../../release/apps/environments/muster-environments"};

bool is_program(const fs::path& path) {
  std::error_code failure;
  return fs::is_regular_file(path, failure) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

Result<fs::path> find_environments_program() {
  if (const char* chosen = std::getenv("MUSTER_ENVIRONMENTS"); chosen != nullptr && *chosen != '\0') {
    if (is_program(chosen)) return fs::absolute(chosen);
    return bad_input(fmt::format("MUSTER_ENVIRONMENTS={} is not a program that can be run", chosen),
                     "set it to the path of muster-environments, or unset it");
  }
  const auto program = own_program();
  if (!program) return program.error();
  for (const char* place : places)
    if (const fs::path path = (program->parent_path() / place).lexically_normal(); is_program(path)) return path;
  return Error{Error::Kind::refused,
               fmt::format("muster-environments, the program that speaks gRPC, is not built: there is none beside {}",
                           program->parent_path().string()),
               "install gRPC (Debian: apt-get install libgrpc++-dev libprotobuf-dev protobuf-compiler "
               "protobuf-compiler-grpc) and let "
               "./muster serve-environments build it; elsewhere: set MUSTER_ENVIRONMENTS to its path"};
}

Result<std::string> read_token(const std::optional<std::string>& file) {
  std::string token;
  if (file) {
    struct stat facts = {};
    if (::stat(file->c_str(), &facts) == 0 && (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0)
      return bad_input(fmt::format("{} holds a token, and others than its owner may open it (mode {:04o})", *file,
                                   facts.st_mode & 07777),
                       fmt::format("chmod 600 {}", *file));
    auto text = read_file(*file);
    if (!text) return text.error();
    token = trim(*text);
    if (token.empty())
      return bad_input(fmt::format("{} is empty, and a token is expected", *file),
                       "write one into it: openssl rand -hex 32");
  } else if (const char* given = std::getenv(token_variable); given != nullptr) {
    token = trim(given);
  }
  for (const char letter : token)
    if (letter <= ' ' || letter > '~')
      return bad_input("a token has a character that is not a visible one of ASCII",
                       "openssl rand -hex 32 makes one that can be used");
  return token;
}

Result<std::vector<std::string>> client_command(const spec::EnvironmentOptions& options) {
  auto program = find_environments_program();
  if (!program) return program.error();
  if (auto token = read_token(options.token_file); !token) return token.error();
  std::vector<std::string> command{program->string(), "ask", *options.server, std::string(name_of(options.kind)),
                                   fmt::format("{}", options.program_seconds)};
  if (options.token_file) command.push_back(fs::absolute(*options.token_file).string());
  return command;
}

}  // namespace muster::environment
