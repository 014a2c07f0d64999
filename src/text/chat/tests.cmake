nibble_add_test(chat_template_test
  SOURCES chat/chat_template_test.cpp chat/chat_budget_test.cpp chat/chat_fuzz_test.cpp
  LINKS text)
