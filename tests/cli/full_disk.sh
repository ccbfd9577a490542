nf info > /dev/full
