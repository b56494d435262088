#include "checkpoint/piece_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "checkpoint/checksum.hpp"
#include "spec/model/little_endian.hpp"
#include "spec/model/safetensors_header.hpp"

namespace muster::checkpoint {
namespace {

using json = nlohmann::ordered_json;
constexpr std::string_view piece_format = "muster-state";
constexpr std::size_t read_bytes = std::size_t{1} << 20;

Error bad_piece_file(const std::string& source, const std::string& what) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", source, what), "resume from another checkpoint"};
}

std::string stored_name(const Piece& piece) { return fmt::format("{}/{}@{}", piece.state, piece.tensor, piece.first); }

std::string_view dtype_of(const Piece& piece) {
  return form_of(piece.state).type == spec::ElementType::uint8 ? "U8" : "F32";
}

std::optional<Piece> parse_stored_name(const std::string& name, std::int64_t count) {
  const std::size_t slash = name.find('/'), at = name.rfind('@');
  if (slash == std::string::npos || at == std::string::npos || at < slash) return std::nullopt;
  const auto first = parse_number<std::int64_t>(std::string_view(name).substr(at + 1));
  if (!first || *first < 0) return std::nullopt;
  Piece piece{name.substr(slash + 1, at - slash - 1), name.substr(0, slash), *first, count};
  return stored_name(piece) == name ? std::optional(std::move(piece)) : std::nullopt;
}

std::string header_value(const spec::SafetensorsHeader& header, const std::string& key) {
  const auto found = header.metadata.find(key);
  return found == header.metadata.end() ? std::string() : found->second;
}

Result<std::vector<StoredPiece>> read_pieces(const spec::SafetensorsHeader& header, const std::string& source) {
  const std::string list = header_value(header, "checksums");
  const std::vector<std::string> checksums = list.empty() ? std::vector<std::string>() : muster::split(list, ' ');
  if (checksums.size() != header.tensors.size())
    return bad_piece_file(source, fmt::format("{} checksums of {} pieces", checksums.size(), header.tensors.size()));
  std::vector<StoredPiece> pieces;
  for (std::size_t i = 0; i < checksums.size(); ++i) {
    const spec::StoredTensor& tensor = header.tensors[i];
    const bool flat = tensor.dimensions.rank == 1;
    auto piece = flat ? parse_stored_name(tensor.name, tensor.dimensions.sizes[0]) : std::nullopt;
    const auto checksum = parse_checksum(checksums[i]);
    if (!piece || piece->count == 0 || !checksum || tensor.type != form_of(piece->state).type)
      return bad_piece_file(source, fmt::format("{} is not a piece of a training checkpoint", tensor.name));
    pieces.push_back({std::move(*piece), tensor.begin, *checksum});
  }
  return pieces;
}

}  // namespace

std::string print_piece_header(const SaveIdentity& identity, std::span<const Piece> pieces,
                               std::span<const std::uint64_t> checksums) {
  std::string list;
  for (const std::uint64_t checksum : checksums) list += (list.empty() ? "" : " ") + checksum_text(checksum);
  json object{{"__metadata__",
               {{"format", piece_format},
                {"step", fmt::to_string(identity.step)},
                {"attempt", identity.attempt},
                {"checksums", std::move(list)}}}};
  // Pieces may be many, and a name that is assigned would be looked for among all before it.
  auto& members = object.get_ref<json::object_t&>();
  std::int64_t end = 0;
  for (const Piece& piece : pieces) {
    const std::int64_t begin = end;
    end += piece.bytes();
    members.push_back(
        {stored_name(piece),
         {{"dtype", dtype_of(piece)}, {"shape", json::array({piece.count})}, {"data_offsets", {begin, end}}}});
  }
  std::string text = object.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

Result<PieceFile> open_piece_file(const std::filesystem::path& path) {
  auto opened = RegularFile::open(path);
  if (!opened) return opened.error();
  const std::string source = path.string();
  constexpr std::uint64_t word_bytes = sizeof(std::uint64_t), longest = 100'000'000;
  const auto word = opened->beginning(word_bytes);
  if (!word) return word.error();
  if (word->size() < word_bytes) return bad_piece_file(source, fmt::format("cut off after {} bytes", word->size()));
  const auto length = spec::load_little_endian<std::uint64_t>(*word);
  if (length > longest) return bad_piece_file(source, "damaged: its header would be longer than any is");
  const auto beginning = opened->beginning(word_bytes + length);
  if (!beginning) return beginning.error();
  const auto header = spec::parse_safetensors_header(*beginning, opened->size(), source);
  if (!header) return header.error();
  const auto step = parse_number<std::int64_t>(header_value(*header, "step"));
  if (header_value(*header, "format") != piece_format || !step)
    return bad_piece_file(source, "not a file of a training checkpoint");
  auto pieces = read_pieces(*header, source);
  if (!pieces) return pieces.error();
  return PieceFile{
      std::move(*opened), {*step, header_value(*header, "attempt")}, std::move(*pieces), checksum_of(*beginning)};
}

Error damaged_piece(const PieceFile& file, const StoredPiece& piece, std::uint64_t seen) {
  return bad_piece_file(
      file.file.path().string(),
      fmt::format("{} of {}, elements {} to {}, is damaged: checksum {}, and {} was written", piece.piece.state,
                  piece.piece.tensor, piece.piece.first, piece.piece.first + piece.piece.count, checksum_text(seen),
                  checksum_text(piece.checksum)));
}

Result<void> verify_piece(const PieceFile& file, const StoredPiece& piece) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(read_bytes, piece.bytes())));
  Checksum checksum;
  for (std::uint64_t at = 0; at < piece.bytes();) {
    const auto part =
        std::span(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), piece.bytes() - at)));
    if (auto read = file.file.read_at(piece.begin + at, part); !read) return read;
    checksum.add(part);
    at += part.size();
  }
  if (checksum.value() != piece.checksum) return damaged_piece(file, piece, checksum.value());
  return {};
}

}  // namespace muster::checkpoint
