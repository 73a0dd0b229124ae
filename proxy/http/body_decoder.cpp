#include "proxy/http/body_decoder.hpp"

#include <algorithm>
#include <cstring>

namespace weir::proxy::http {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// No chunk is this long. Refusing it keeps the arithmetic far from overflow.
constexpr std::uint64_t max_chunk = std::uint64_t{1} << 48;

}  // namespace

BodyDecoder::BodyDecoder(Framing framing, std::uint64_t length) {
  switch (framing) {
    case Framing::none:
      break;
    case Framing::length:
      left_ = length;
      state_ = length == 0 ? State::finished : State::length;
      break;
    case Framing::chunked:
      state_ = State::size_first;
      break;
    case Framing::until_close:
      state_ = State::until_close;
      break;
  }
}

void BodyDecoder::framing_byte(char c) {
  const int digit = hex_digit(c);
  switch (state_) {
    case State::size_first:
      if (digit < 0) return void(state_ = State::failed);
      left_ = static_cast<std::uint64_t>(digit);
      line_ = 1;
      state_ = State::size;
      return;
    case State::size:
      if (digit >= 0) {
        left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
        if (left_ > max_chunk || ++line_ > max_size_digits) state_ = State::failed;
      } else if (c == '\r') {
        state_ = State::size_lf;
      } else if (c == ';') {
        line_ = 0;
        state_ = State::extension_start;
      } else {
        state_ = State::failed;
      }
      return;
    case State::extension_start:
    case State::extension_name:
    case State::extension_equals:
    case State::value_start:
    case State::value:
    case State::quoted:
    case State::quoted_pair:
    case State::value_end:
    case State::extension_end:
      return extension_byte(c);
    case State::size_lf:
      line_ = 0;
      state_ = c != '\n' ? State::failed : left_ == 0 ? State::trailer_start : State::chunk;
      return;
    case State::chunk_cr:
      state_ = c == '\r' ? State::chunk_lf : State::failed;
      return;
    case State::chunk_lf:
      state_ = c == '\n' ? State::size_first : State::failed;
      return;
    case State::trailer_start:
    case State::trailer_name:
    case State::trailer_value:
    case State::trailer_lf:
    case State::end_lf:
      return trailer_byte(c);
    case State::length:
    case State::until_close:
    case State::chunk:
    case State::finished:
    case State::failed:
      return;
  }
}

// chunk-ext = *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] ), but for blanks before the first
// semicolon.
void BodyDecoder::extension_byte(char c) {
  const bool blank = c == ' ' || c == '\t', token = is_token({&c, 1});
  const bool may_end = state_ == State::extension_name || state_ == State::value || state_ == State::value_end;
  if (may_end && c == '\r') return void(state_ = State::size_lf);
  if (!is_value({&c, 1}) || ++line_ > max_extension) return void(state_ = State::failed);
  switch (state_) {
    case State::extension_start:
      if (!blank) state_ = token ? State::extension_name : State::failed;
      return;
    case State::extension_name:
      if (token) return;
      [[fallthrough]];
    case State::extension_equals:
      state_ = blank      ? State::extension_equals
               : c == '=' ? State::value_start
               : c == ';' ? State::extension_start
                          : State::failed;
      return;
    case State::value_start:
      if (!blank) state_ = token ? State::value : c == '"' ? State::quoted : State::failed;
      return;
    case State::value:
      if (token) return;
      [[fallthrough]];
    case State::value_end:
    case State::extension_end:
      state_ = blank ? State::extension_end : c == ';' ? State::extension_start : State::failed;
      return;
    case State::quoted:
      if (c == '\\') state_ = State::quoted_pair;
      if (c == '"') state_ = State::value_end;
      return;
    default:
      state_ = State::quoted;
      return;
  }
}

void BodyDecoder::trailer_byte(char c) {
  switch (state_) {
    case State::trailer_start:
      if (c == '\r') return void(state_ = State::end_lf);
      state_ = ++line_ <= max_trailers && is_token({&c, 1}) ? State::trailer_name : State::failed;
      return;
    case State::trailer_name:
      if (++line_ > max_trailers) return void(state_ = State::failed);
      if (!is_token({&c, 1})) state_ = c == ':' ? State::trailer_value : State::failed;
      return;
    case State::trailer_value:
      if (c == '\r') return void(state_ = State::trailer_lf);
      if (!is_value({&c, 1}) || ++line_ > max_trailers) state_ = State::failed;
      return;
    case State::trailer_lf:
      state_ = c == '\n' ? State::trailer_start : State::failed;
      return;
    default:
      state_ = c == '\n' ? State::finished : State::failed;
  }
}

BodyDecoder::Decoded BodyDecoder::decode(std::span<char> piece) {
  if (state_ == State::until_close) return {piece, piece.size()};
  char* payload = piece.data();
  std::size_t length = 0, at = 0;
  while (at < piece.size() && state_ != State::finished && state_ != State::failed) {
    if (state_ != State::chunk && state_ != State::length) {
      framing_byte(piece[at++]);
      continue;
    }
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(left_, piece.size() - at));
    if (length == 0) {
      payload = piece.data() + at;
    } else {
      std::memmove(payload + length, piece.data() + at, take);
    }
    length += take;
    at += take;
    left_ -= take;
    if (left_ == 0) state_ = state_ == State::length ? State::finished : State::chunk_cr;
  }
  return {{payload, length}, at};
}

}  // namespace weir::proxy::http
