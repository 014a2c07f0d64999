#pragma once

#include <string>

namespace nibble::characters {

/// Classes of characters as the tokenizers of the field use them (Unicode data of ICU).

/// White_Space.
bool is_white_space(char32_t c);
/// General category N: decimal digits, letter numbers, other numbers.
bool is_numeric(char32_t c);
/// General category P, or one of the 32 ASCII characters that are neither letter, digit nor space.
bool is_punctuation(char32_t c);
/// A character of `\w` of UTS 18: Alphabetic, M, Nd, Pc, Join_Control.
bool is_word_character(char32_t c);
/// General category M.
bool is_mark(char32_t c);
/// General category Mn.
bool is_nonspacing_mark(char32_t c);
/// General categories Cc, Cf, Co, Cs.
bool is_control_like(char32_t c);
/// What Python's repr() shows as it is: a space, and all but the general categories C and Z.
bool is_printable(char32_t c);
/// The blocks that BERT treats as Chinese characters (google-research/bert, tokenization.py). The
/// start of the eighth range, U+2B920, is the one that Hugging Face's tokenizers use.
bool is_bert_cjk(char32_t c);

/// Appends the full lower-case form of `c`, without context.
void append_lower_case(std::string& out, char32_t c);

}  // namespace nibble::characters
